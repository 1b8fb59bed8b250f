-- Who may do what, and whether the ways into AWS are open. As FRAZIL_DEPLOYER, which owns all of it.

SET role_name = 'FRAZIL_DEPLOYER';
USE ROLE IDENTIFIER($role_name);

SHOW GRANTS TO ROLE FRAZIL_DEV_LOADER;
SHOW GRANTS TO ROLE FRAZIL_DEV_READER;
SHOW GRANTS TO ROLE FRAZIL_DEV_ROTATOR;
SHOW FUTURE GRANTS IN SCHEMA FRAZIL_DEV.LAKE;

-- can Snowflake take the role, and read? Writing is not tried: the volume is read-only
SELECT PARSE_JSON(SYSTEM$VERIFY_EXTERNAL_VOLUME('FRAZIL_DEV_TABLES')) AS volume;

-- who takes which role of AWS, with which external id: what the trust policies say
DESCRIBE EXTERNAL VOLUME FRAZIL_DEV_TABLES;
DESCRIBE CATALOG INTEGRATION FRAZIL_DEV_GLUE;
DESCRIBE STORAGE INTEGRATION FRAZIL_DEV_STAGES;

-- keys: two slots a user, one of them idle between rotations
DESCRIBE USER FRAZIL_DEV_READER;

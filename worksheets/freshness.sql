-- How far Snowflake is behind the lake. As FRAZIL_DEV_READER, or a role of reader_roles: set yours.

SET role_name = 'FRAZIL_DEV_READER';
SET warehouse_name = 'FRAZIL_DEV';
SET schema_name = 'FRAZIL_DEV.LAKE';
USE ROLE IDENTIFIER($role_name);
USE WAREHOUSE IDENTIFIER($warehouse_name);
USE SCHEMA IDENTIFIER($schema_name);

-- executionState RUNNING is well; pendingSnapshotCount waits; currentSnapshotId is what queries see
SELECT PARSE_JSON(SYSTEM$AUTO_REFRESH_STATUS('STOCK_TRADES')) AS refresh;

-- the metadata file that queries read, and whether it could be read
SELECT PARSE_JSON(SYSTEM$GET_ICEBERG_TABLE_INFORMATION('STOCK_TRADES')) AS information;

-- of all tables at once: the column auto_refresh_status
SHOW ICEBERG TABLES IN SCHEMA FRAZIL_DEV.LAKE;

-- the age of the newest row
SELECT DATEDIFF(SECOND, MAX(KAFKA_TIMESTAMP), CURRENT_TIMESTAMP()) AS seconds_behind FROM STOCK_TRADES;

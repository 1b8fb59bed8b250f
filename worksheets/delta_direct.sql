-- Delta Direct: an Iceberg table over a Delta log, with typed columns, beside the external table. As FRAZIL_DEPLOYER.
-- Drop both again, as the last lines say, before `scripts/deploy.sh delete`: the table would hold the volume.

SET role_name = 'FRAZIL_DEPLOYER';
SET reader_name = 'FRAZIL_DEV_READER';
SET warehouse_name = 'FRAZIL_DEV';
SET schema_name = 'FRAZIL_DEV.LAKE';
USE ROLE IDENTIFIER($role_name);
USE SCHEMA IDENTIFIER($schema_name);

CREATE CATALOG INTEGRATION IF NOT EXISTS FRAZIL_DEV_DELTA
  CATALOG_SOURCE = OBJECT_STORE
  TABLE_FORMAT = DELTA
  ENABLED = TRUE;

-- the location is the table's folder below that of the volume
CREATE ICEBERG TABLE IF NOT EXISTS STOCK_TRADES__DIRECT
  EXTERNAL_VOLUME = 'FRAZIL_DEV_TABLES'
  CATALOG = 'FRAZIL_DEV_DELTA'
  BASE_LOCATION = 'stock_trades/';

-- see the versions that came since
ALTER ICEBERG TABLE STOCK_TRADES__DIRECT REFRESH;

-- as the reader, who may read all Iceberg tables of the schema
USE ROLE IDENTIFIER($reader_name);
USE WAREHOUSE IDENTIFIER($warehouse_name);
SELECT SYMBOL, COUNT(*) AS trades FROM STOCK_TRADES__DIRECT GROUP BY SYMBOL ORDER BY trades DESC;

-- take it away again, as FRAZIL_DEPLOYER
-- USE ROLE IDENTIFIER($role_name);
-- DROP ICEBERG TABLE STOCK_TRADES__DIRECT;
-- DROP CATALOG INTEGRATION FRAZIL_DEV_DELTA;

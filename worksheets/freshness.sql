-- How far Snowflake is behind the lake. As FRAZIL_DEV_READER.

USE ROLE FRAZIL_DEV_READER;
USE WAREHOUSE FRAZIL_DEV;
USE SCHEMA FRAZIL_DEV.LAKE;

-- executionState RUNNING is well; pendingSnapshotCount waits; currentSnapshotId is what queries see
SELECT PARSE_JSON(SYSTEM$AUTO_REFRESH_STATUS('STOCK_TRADES')) AS refresh;

-- the metadata file that queries read, and whether it could be read
SELECT PARSE_JSON(SYSTEM$GET_ICEBERG_TABLE_INFORMATION('STOCK_TRADES')) AS information;

-- of all tables at once: the column auto_refresh_status
SHOW ICEBERG TABLES IN SCHEMA FRAZIL_DEV.LAKE;

-- the age of the newest row
SELECT DATEDIFF(SECOND, MAX(KAFKA_TIMESTAMP), CURRENT_TIMESTAMP()) AS seconds_behind FROM STOCK_TRADES;

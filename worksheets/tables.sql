-- What the tables hold. As FRAZIL_DEV_READER, or a role of reader_roles: set yours, and a warehouse that it may use.

SET role_name = 'FRAZIL_DEV_READER';
SET warehouse_name = 'FRAZIL_DEV';
SET schema_name = 'FRAZIL_DEV.LAKE';
USE ROLE IDENTIFIER($role_name);
USE WAREHOUSE IDENTIFIER($warehouse_name);
USE SCHEMA IDENTIFIER($schema_name);

-- how many
SELECT COUNT(*) AS trades FROM STOCK_TRADES;

-- the latest
SELECT KAFKA_TIMESTAMP, SYMBOL, SIDE, QUANTITY, PRICE, ACCOUNT
FROM STOCK_TRADES
ORDER BY KAFKA_TIMESTAMP DESC
LIMIT 10;

-- totals per symbol
SELECT SYMBOL, COUNT(*) AS trades, SUM(QUANTITY) AS shares, SUM(QUANTITY * PRICE) AS traded
FROM STOCK_TRADES
GROUP BY SYMBOL
ORDER BY traded DESC;

-- no record twice, none missing between the first and the last: both columns are equal
SELECT KAFKA_PARTITION, COUNT(*) AS "rows", MAX(KAFKA_OFFSET) - MIN(KAFKA_OFFSET) + 1 AS "records"
FROM STOCK_TRADES
GROUP BY KAFKA_PARTITION
ORDER BY KAFKA_PARTITION;

-- time travel: the table as it was, as far back as there are snapshots. Iceberg tables only
SELECT COUNT(*) AS trades FROM STOCK_TRADES AT (TIMESTAMP => DATEADD(MINUTE, -10, CURRENT_TIMESTAMP()));

-- a snapshot by its id, as `frazil verify` and every receipt name it
-- SELECT COUNT(*) AS trades FROM STOCK_TRADES AT (VERSION => 3051729675574597004);

-- External tables: Delta logs, and exports. They show the files of their last refresh.

SET loader_name = 'FRAZIL_DEV_LOADER';
SET role_name = 'FRAZIL_DEV_READER';
SET warehouse_name = 'FRAZIL_DEV';
SET schema_name = 'FRAZIL_DEV.LAKE';
USE ROLE IDENTIFIER($loader_name);
USE WAREHOUSE IDENTIFIER($warehouse_name);
USE SCHEMA IDENTIFIER($schema_name);

-- as the loader, who owns them: look again. `frazil` does so after each publish of a table with formats: [iceberg, delta].
-- The deployer's role inherits from the loader's, so every user with the deployer's role may run this
ALTER EXTERNAL TABLE STOCK_TRADES__DELTA REFRESH;
ALTER EXTERNAL TABLE EXPORTS__CSV REFRESH;
ALTER EXTERNAL TABLE EXPORTS__PARQUET REFRESH;

-- as the reader, or a role of reader_roles: columns of the table are in VALUE, by their names in lower case
USE ROLE IDENTIFIER($role_name);
USE WAREHOUSE IDENTIFIER($warehouse_name);
SELECT VALUE:symbol::STRING AS symbol, COUNT(*) AS trades, SUM(VALUE:quantity::INT) AS shares
FROM STOCK_TRADES__DELTA
GROUP BY 1
ORDER BY shares DESC;

-- both ways to the same files see the same rows
SELECT
  (SELECT COUNT(*) FROM STOCK_TRADES) AS by_iceberg,
  (SELECT COUNT(*) FROM STOCK_TRADES__DELTA) AS by_delta;

-- exports: which files there are, and what is in them
LIST @EXPORTS;
SELECT FILE, COUNT(*) AS "rows" FROM EXPORTS__PARQUET GROUP BY FILE;
SELECT VALUE:c1::STRING AS first_column, VALUE:c2::STRING AS second_column FROM EXPORTS__CSV LIMIT 10;

// Unpack the browser of the npm package @sparticuz/chromium into the folder that is given: chromium, lib/ and fonts/.
import { createReadStream, createWriteStream } from "node:fs";
import { chmod } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { createBrotliDecompress } from "node:zlib";

const folder = process.argv[2];
const packed = `${folder}/node_modules/@sparticuz/chromium/bin`;
for (const name of ["chromium", "al2023.tar", "fonts.tar"]) {
  await pipeline(createReadStream(`${packed}/${name}.br`), createBrotliDecompress(), createWriteStream(`${folder}/${name}`));
}
await chmod(`${folder}/chromium`, 0o755);

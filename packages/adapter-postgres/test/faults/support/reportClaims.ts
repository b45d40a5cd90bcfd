// A process of its own, so that a bug can be planted in what it loads: reports where a claim in one statement differs from the rules.
import { isDeepStrictEqual } from "node:util"
import { openComparison } from "../../support/compareClaims.ts"

const [server, few] = process.argv.slice(2)
await using opened = await openComparison(server)
for (let seed = 1; seed <= 300; seed += 1) {
  const { expected, found } = await opened.compare(seed, few === undefined ? undefined : 1 + (seed % 3))
  if (isDeepStrictEqual(found, expected)) continue
  process.stdout.write(`seed ${seed}: ${JSON.stringify(found)}, not ${JSON.stringify(expected)}\n`)
  break
}

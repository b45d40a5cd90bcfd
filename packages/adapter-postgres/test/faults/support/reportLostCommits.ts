// A process of its own, so that a bug can be planted in what it loads: says in what verbs differ whose COMMIT met a fault.
import { differences, makeTemplate } from "./lostCommits.ts"
import { writingVerbs } from "./writingVerbs.ts"

const [server = "", fault, ...names] = process.argv.slice(2)
if (fault !== "answer lost" && fault !== "cut before") throw new Error(`no such fault: ${fault}`)
await using template = await makeTemplate(server)
for (const verb of writingVerbs.filter(({ name }) => names.includes(name)))
  for (const line of await differences(template, verb, fault)) process.stdout.write(`${line}\n`)

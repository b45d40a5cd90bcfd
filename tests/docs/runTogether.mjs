// Imports snippets one after the other, in one process: `node runTogether.mjs DIRECTORY…`, with a channel to whoever started
// it. After each it sends what came of it. To load kiln takes far longer than to run a snippet, and is done once.
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { inspect } from "node:util"

const write = process.stdout.write.bind(process.stdout)

for (const directory of process.argv.slice(2)) {
  process.chdir(directory)
  let stdout = ""
  process.stdout.write = (chunk) => {
    stdout += chunk
    return true
  }
  let stderr = ""
  try {
    await import(pathToFileURL(join(directory, "snippet.ts")).href)
  } catch (error) {
    stderr = inspect(error)
  }
  process.stdout.write = write
  const exitCode = stderr === "" ? (process.exitCode ?? 0) : 1
  process.exitCode = undefined
  process.send({ directory, exitCode, stdout, stderr })
}

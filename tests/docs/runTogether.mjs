// Imports snippets one after the other in one process: `node runTogether.mjs DIRECTORY…`, with a channel to its parent. Sends
// the outcome after each snippet. Loading kiln takes much longer than running a snippet, and happens only once.
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

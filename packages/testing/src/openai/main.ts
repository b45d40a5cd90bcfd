// Runs a stand-in as a process: `node main.ts '{"port":8080,"journal":"calls.jsonl"}'`. Takes `OpenAiStandInOptions` as JSON,
// prints a line with its URL and process id once it listens, and stops on SIGTERM or SIGINT. With `--until-stdin-ends` it
// also stops with its parent process.
import { type OpenAiStandInOptions, startOpenAiStandIn } from "./startOpenAiStandIn.ts"

const [options = "{}", flag] = process.argv.slice(2)
const standIn = await startOpenAiStandIn(JSON.parse(options) as OpenAiStandInOptions)

const stop = (): void => {
  process.stdin.destroy()
  void standIn.close()
}
process.once("SIGTERM", stop).once("SIGINT", stop)
if (flag === "--until-stdin-ends") process.stdin.once("end", stop).resume()

process.stdout.write(`${JSON.stringify({ url: standIn.url, pid: process.pid })}\n`)

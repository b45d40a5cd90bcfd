// A process of its own, so that a bug can be planted in what it loads.
import { forgottenCommit } from "./forgottenCommit.ts"

const { answer, stored } = await forgottenCommit()
process.stdout.write(`createJobs: answered ${String(answer)}, ${stored} stored\n`)

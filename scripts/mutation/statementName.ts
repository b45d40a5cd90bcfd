import { createHash } from "node:crypto"

/** Files that run the statements of others. */
const runners = /\/(Transaction|Database|Session|Statement|transactionsOf)\.ts$/

/** Names a statement by the file of the adapter that runs it. */
export const statementName = (adapter: string, text: string): string => {
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = 40
  const stack = new Error("where").stack ?? ""
  Error.stackTraceLimit = limit
  const files = [...stack.matchAll(/\/packages\/([\w-]+)\/src\/[\w/-]*?(\w+)\.ts/g)]
  const source = files.find(([path, name]) => name === adapter && !runners.test(path))?.[2] ?? "other"
  return `${source} ${createHash("sha256").update(text).digest("hex").slice(0, 6)}`
}

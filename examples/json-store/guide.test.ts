import { readFileSync } from "node:fs"
import { join } from "node:path"
import { expect, it } from "vitest"

it("is quoted completely and unchanged in the guide to adapters", () => {
  const guide = readFileSync(join(import.meta.dirname, "../../docs/guides/adapters.md"), "utf8")
  const code = readFileSync(join(import.meta.dirname, "JsonStores.ts"), "utf8")
  expect(guide).toContain(`\`\`\`ts\n${code}\`\`\`\n`)
})

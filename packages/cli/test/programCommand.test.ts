import { chmodSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { temporaryDirectory } from "@kiln/service-lab"
import { expect, it } from "vitest"
import { programCommand } from "../src/programCommand.ts"

it("is pnpm's in a checkout", () => {
  expect(programCommand()).toBe("npx -y pnpm@12 kiln")
})

it.each([
  ["/opt/kiln/node_modules/.bin/kiln", "/opt/kiln/node_modules/.bin/kiln"],
  ["/opt/my kiln/node_modules/.bin/kiln", "'/opt/my kiln/node_modules/.bin/kiln'"],
  ["/opt/it's/kiln", String.raw`'/opt/it'\''s/kiln'`],
])("is the path of an installed program: %s", (program, command) => {
  expect(programCommand({ isCheckout: false, program, path: "/nowhere:" })).toBe(command)
})

it("is kiln where the path has an executable of that name", () => {
  using directory = temporaryDirectory()
  const installed = { isCheckout: false, program: "/opt/kiln.mjs", path: `/nowhere:${directory.path}` }
  writeFileSync(join(directory.path, "kiln"), "")
  expect(programCommand(installed)).toBe("/opt/kiln.mjs")
  chmodSync(join(directory.path, "kiln"), 0o755)
  expect(programCommand(installed)).toBe("kiln")
})

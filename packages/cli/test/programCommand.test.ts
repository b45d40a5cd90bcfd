import { expect, it } from "vitest"
import { programCommand } from "../src/programCommand.ts"

it("is pnpm's in a checkout", () => {
  expect(programCommand()).toBe("npx -y pnpm@12 kiln")
})

it.each([
  ["/usr/local/bin/kiln", "/usr/local/bin/kiln"],
  ["/opt/my kiln/node_modules/.bin/kiln", "'/opt/my kiln/node_modules/.bin/kiln'"],
  ["/opt/it's/kiln", String.raw`'/opt/it'\''s/kiln'`],
])("is the path of the program elsewhere: %s", (program, command) => {
  expect(programCommand(program, false)).toBe(command)
})

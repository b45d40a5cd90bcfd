import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { temporaryDirectory } from "@kiln/service-lab"

/** Keeps jobs with this text in their slots until it is opened, however slow the machine is. For processes with slow speech. */
export const speechGate = () => {
  const directory = temporaryDirectory()
  const path = join(directory.path, "open")
  return {
    text: `gate:${path}`,
    open: (): void => writeFileSync(path, ""),
    [Symbol.dispose]: () => directory[Symbol.dispose](),
  }
}

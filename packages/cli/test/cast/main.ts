// Makes the cast of `kiln try` in the documentation from a real run: `pnpm pictures:cast`.
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { drawCast } from "./drawCast.ts"
import { record } from "./record.ts"

const root = join(import.meta.dirname, "../../../..")
const images = join(root, "docs/images")
const columns = 106
const mostCastBytes = 60_000

const commands = [
  `kiln try speak 'Good morning. Here are the headlines.' -o hello.mp3`,
  `kiln try transcribe question.wav`,
  `kiln try turn question.wav -o answer.mp3`,
  `kiln try image 'a red lighthouse' -o lighthouse.png`,
]

/** The arguments of a command, as a shell would split them. */
const argsOf = (command: string): ReadonlyArray<string> =>
  [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? "").slice(1)

const makeCast = async (): Promise<void> => {
  const directory = mkdtempSync(join(tmpdir(), "kiln-pictures-"))
  try {
    copyFileSync(join(root, "examples/demo/assets/hello.wav"), join(directory, "question.wav"))
    process.chdir(directory)
    const frames = await record(
      commands.map((typed) => ({ typed, args: argsOf(typed) })),
      columns,
    )
    const svg = drawCast(frames, columns, "kiln try in a terminal: speech, a transcript, a voice turn and an image")
    if (svg.length > mostCastBytes) throw new Error(`the cast has ${svg.length} bytes; at most ${mostCastBytes}`)
    writeFileSync(join(images, "try.svg"), svg)
    console.log(`wrote docs/images/try.svg (${svg.length} bytes)`)
  } finally {
    process.chdir(root)
    rmSync(directory, { recursive: true, force: true })
  }
}

await makeCast()

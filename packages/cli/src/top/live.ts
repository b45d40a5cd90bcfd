import { ReadStream } from "node:tty"
import * as Effect from "effect/Effect"
import type { CommandFailed } from "../CommandFailed.ts"
import { ProcessIo } from "../ProcessIo.ts"
import { fitted } from "../try/StatusLine.ts"
import { stopOnSignal } from "../try/stopOnSignal.ts"
import { frame, type Picture } from "./frame.ts"

const open = "\u001b[?1049h\u001b[?25l"
const close = "\u001b[?25h\u001b[?1049l"
/** Terminals that know these draw what is between them at once. */
const [begin, end] = ["\u001b[?2026h", "\u001b[?2026l"]

/** q, Ctrl-C and Ctrl-D, which a terminal in raw mode passes on. */
const quitKeys = ["q", "Q", "\u0003", "\u0004"]

/** Completes when a person presses q or Ctrl-C. */
const untilQuit = Effect.suspend(() => {
  const { stdin } = process
  if (!(stdin instanceof ReadStream)) return Effect.never
  let press: (keys: Buffer) => void = () => undefined
  return Effect.callback<void>((resume) => {
    press = (keys) => {
      if (quitKeys.some((key) => keys.includes(key))) resume(Effect.void)
    }
    stdin.setRawMode(true).on("data", press).resume()
  }).pipe(Effect.ensuring(Effect.sync(() => stdin.off("data", press).setRawMode(false).pause())))
})

/** Shows the overview until q is pressed, redrawn each second. A failure to read stays visible until the next success. */
export const live = (read: Effect.Effect<Picture, CommandFailed>): Effect.Effect<void> =>
  Effect.gen(function* () {
    const { write } = yield* ProcessIo
    let lines: ReadonlyArray<string> = ["kiln top: reading…"]
    const draw = Effect.gen(function* () {
      const columns = process.stdout.columns || 80
      const problem = yield* read.pipe(
        Effect.map((picture) => {
          lines = [...frame(picture, columns), "", "q quits"]
          return undefined
        }),
        Effect.catch(({ message }) => Effect.succeed(fitted(`NOT UPDATING: ${message}`, columns))),
      )
      const [first = "", ...rest] = lines
      const shown = [problem ?? first, ...rest].slice(0, process.stdout.rows || 24)
      write(`${begin}\u001b[H${shown.map((line) => `${line}\u001b[K`).join("\r\n")}\u001b[J${end}`)
    })
    const loop = Effect.forever(Effect.andThen(draw, Effect.sleep("1 second")))
    yield* stopOnSignal(
      Effect.acquireUseRelease(
        Effect.sync(() => write(open)),
        () => Effect.raceFirst(loop, untilQuit),
        () => Effect.sync(() => write(close)),
      ),
    )
  })

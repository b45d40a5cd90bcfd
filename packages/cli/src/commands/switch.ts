import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import { switchNames } from "@kiln/core/domain"
import { Switchboard } from "@kiln/core/ports"
import { misused } from "../CommandFailed.ts"
import { answer, formatTable } from "../Output.ts"
import { always, recordChange } from "../recordChange.ts"
import { beginStores, withSettings } from "../withStores.ts"

const checkSwitch = (known: ReadonlyArray<string>, name: string) =>
  known.includes(name)
    ? Effect.void
    : Effect.fail(misused(`SWITCH must be one of ${known.join(", ")}, not ${JSON.stringify(name)}`))

const setter = (word: "on" | "off") =>
  Command.make(
    word,
    {
      name: Argument.String("SWITCH").pipe(
        Argument.withDescription("ai, audio or images, or a switch that a program with kinds of its own has set"),
      ),
    },
    ({ name }) =>
      beginStores(
        // A new installation has no switches of other programs.
        checkSwitch(switchNames, name),
        Effect.gen(function* () {
          const board = yield* Switchboard
          yield* checkSwitch(Object.keys((yield* board.readBoard).switches), name)
          yield* board
            .setSwitch(name, word === "on")
            .pipe(recordChange({ action: `switch.${word}`, subject: name }, always))
          yield* answer({ json: { switch: name, status: word }, text: `${name} is ${word}` })
        }),
      ),
  ).pipe(
    Command.withDescription(
      word === "on"
        ? "Allow live jobs that need it to run"
        : "Stop live jobs that need it within a second; they wait until it is on again",
    ),
  )

const status = Command.make("status", {}, () =>
  withSettings(({ engine }) =>
    Effect.gen(function* () {
      const board = yield* (yield* Switchboard).readBoard
      const forcedOff = engine.forcedOff ?? []
      const names = Object.keys(board.switches)
      const word = (name: string): "on" | "off" => (board.switches[name] === true ? "on" : "off")
      const note = (name: string): string =>
        forcedOff.includes(name) ? `off for processes started with KILN_SWITCH_${name.toUpperCase()}=off` : ""
      yield* answer({
        json: { switches: Object.fromEntries(names.map((name) => [name, word(name)])), forced_off: forcedOff },
        text: formatTable(
          ["SWITCH", "STATUS", ""],
          names.map((name) => [name, word(name), note(name)]),
          "",
        ),
      })
    }),
  ),
).pipe(Command.withDescription("Show which switches are on"))

export const switchCommand = Command.make("switch").pipe(
  Command.withDescription("Turn live jobs on and off"),
  Command.withSubcommands([setter("on"), setter("off"), status]),
)

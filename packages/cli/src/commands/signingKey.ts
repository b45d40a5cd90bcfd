import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import { SecretStore } from "@kiln/core/ports"
import { signingSecret } from "@kiln/http"
import { misused } from "../CommandFailed.ts"
import { answer } from "../Output.ts"
import { withSettings } from "../withStores.ts"

const drop = Command.make("drop", {}, () =>
  withSettings(({ http }) =>
    Effect.gen(function* () {
      if (http.signingKeys === undefined)
        return yield* misused(
          "KILN_SIGNING_KEYS is not set, so the key in the store may be the signing key: set it to the same value as in the service",
        )
      const dropped = yield* (yield* SecretStore).remove(signingSecret)
      yield* answer({
        json: { dropped },
        text: dropped
          ? "The key was removed from the store. Running processes accept its URLs until they are restarted."
          : "The store holds no signing key.",
      })
    }),
  ),
).pipe(
  Command.withDescription(
    "Remove the key that was generated before KILN_SIGNING_KEYS was set; its URLs become invalid",
  ),
)

export const signingKeyCommand = Command.make("signing-key").pipe(
  Command.withDescription("Manage the key in the store that signs URLs"),
  Command.withSubcommands([drop]),
)

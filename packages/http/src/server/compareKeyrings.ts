import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import { SecretStore } from "@kiln/core/ports"
import type { SigningKey, SigningKeyring } from "../wire/SignedUrls.ts"

/** Name of the note about the keys of the process that started last. It has fingerprints and no key. */
const noteSecret = "signing-note"

/** Keys by name and fingerprint. */
interface Note {
  readonly signs: string
  readonly verifies: ReadonlyArray<string>
}

const nameOf = ({ fingerprint, kid }: SigningKey): string => `${kid} (${fingerprint})`

const noteOf = ([first, ...rest]: SigningKeyring["keys"]): Note => ({
  signs: nameOf(first),
  verifies: [first, ...rest].map(nameOf),
})

const decodeNote = (bytes: Uint8Array): Note => JSON.parse(new TextDecoder().decode(bytes)) as Note

/** The keys of earlier processes: from their note, or those in the store, which they use without the setting. */
const previousOf = (note: Uint8Array | undefined, stored: ReadonlyArray<SigningKey>): Note | undefined => {
  const [first, ...rest] = stored
  if (note !== undefined) return decodeNote(note)
  return first && noteOf([first, ...rest])
}

const conflictsBetween = (own: Note, previous: Note): ReadonlyArray<string> => [
  ...(own.verifies.includes(previous.signs)
    ? []
    : [
        `the process that started last signs URLs with the key ${previous.signs}, but this process rejects them: ` +
          "give all processes the same KILN_SIGNING_KEYS, or run kiln signing-key add and restart them",
      ]),
  ...(previous.verifies.includes(own.signs)
    ? []
    : [
        `this process signs URLs with the key ${own.signs}, but processes that started before reject them: restart them with the same keys. ` +
          "To change keys without rejecting a URL, run kiln signing-key add and restart all processes before the first one signs with the new key",
      ]),
]

interface Compared {
  readonly configured: boolean
  readonly stored: ReadonlyArray<SigningKey>
}

/** Compares these keys with those of the process that started last; `known` is its note as stored. */
const compare = Effect.fnUntraced(function* ({ keys }: SigningKeyring, { configured, stored }: Compared) {
  const known = yield* (yield* SecretStore).find(noteSecret)
  const own = noteOf(keys)
  const previous = previousOf(known, stored)
  // Processes that all use the store's keys need no note.
  const isShared = known === undefined && !configured
  return { isShared, known, own, conflicts: isShared || previous === undefined ? [] : conflictsBetween(own, previous) }
})

/** Returns how this process and the one that started before it reject each other's URLs, in sentences. Changes nothing. */
export const keyringConflicts = (
  keyring: SigningKeyring,
  compared: Compared,
): Effect.Effect<ReadonlyArray<string>, StoreUnavailable, SecretStore> =>
  Effect.map(compare(keyring, compared), ({ conflicts }) => conflicts)

/**
 * Warns if this process and the one that started before it reject each other's URLs. A key that is missing on one machine would
 * otherwise only show as occasional rejections. Best effort.
 */
export const compareKeyrings = Effect.fnUntraced(function* (
  keyring: SigningKeyring,
  compared: Compared,
): Effect.fn.Return<void, StoreUnavailable, SecretStore> {
  const { conflicts, isShared, known, own } = yield* compare(keyring, compared)
  if (isShared) return
  for (const conflict of conflicts) yield* Effect.logWarning(conflict)
  const note = new TextEncoder().encode(JSON.stringify(own))
  if (known === undefined || Buffer.compare(known, note) !== 0)
    yield* (yield* SecretStore).replace(noteSecret, known, note)
})

import { type StorePortName, storeVerbs } from "@kiln/core/ports"

/** A writing verb that is declared as reading, so its changes are not saved. */
export interface WrongNature {
  readonly bug: string
  readonly port: StorePortName
  readonly verb: string
}

const ports: ReadonlyArray<[string, Readonly<Record<string, string>>]> = Object.entries(storeVerbs)

/** One bug for each verb that writes. */
export const wrongNatures: ReadonlyArray<WrongNature> = ports.flatMap(([port, verbs]) =>
  Object.keys(verbs)
    .filter((verb) => verbs[verb] === "write")
    .map((verb) => ({ bug: `${port}.${verb} is declared to read`, port: port as StorePortName, verb })),
)

/** The check of the durability suite that must fail, naming the verb. */
export const caughtBy = ({ verb }: Pick<WrongNature, "verb">): string =>
  verb === "listCharges"
    ? "after closing and reopening, no charge gets a time before an `until` that was returned earlier"
    : "after closing and reopening, the last write of any verb is there"

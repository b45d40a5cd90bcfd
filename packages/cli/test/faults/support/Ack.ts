/** What the driver was told, one JSON line each, written after it was told and before anything else. */
export type Ack =
  /** Said before the request: the job is asked for from now on, accepted or not. */
  | {
      readonly say: "asked"
      readonly key: string
      readonly kind: string
      readonly mode: Mode
      readonly request: Record<string, string | number>
    }
  | { readonly say: "accepted"; readonly key: string; readonly id: string }
  | { readonly say: "finished"; readonly id: string; readonly status: string; readonly files: ReadonlyArray<AckFile> }
  | { readonly say: "erased"; readonly id: string }
  | { readonly say: "announced"; readonly upload: string }
  | { readonly say: "received"; readonly upload: string; readonly sha256: string; readonly bytes: number }
  | { readonly say: "ended" }

export type Mode = "sandbox" | "live"

export interface AckFile {
  readonly id: string
  readonly sha256: string
  readonly bytes: number
}

type Said<Name extends Ack["say"]> = Extract<Ack, { readonly say: Name }>

/** Reads what arrived, among lines of the log. The last line of a killed process may be cut off: it was not said. */
export const parseAcks = (text: string): ReadonlyArray<Ack> =>
  text
    .split("\n")
    .slice(0, -1)
    .flatMap((line) => (line.startsWith('{"say":') ? (JSON.parse(line) as Ack) : []))

export const said = <Name extends Ack["say"]>(acks: ReadonlyArray<Ack>, name: Name): ReadonlyArray<Said<Name>> =>
  acks.filter((ack): ack is Said<Name> => ack.say === name)

import type { Edit } from "../../../../../tests/planted/Edit.ts"

/** A bug in how broken connections are taken. */
export interface PlantedBug {
  readonly bug: string
  readonly edits: ReadonlyArray<Edit>
  /** The kind of connections that exposes it. */
  readonly only: string
  /** Description of the bug. */
  readonly noticed: RegExp
}

export const plantedBugs: ReadonlyArray<PlantedBug> = [
  {
    bug: "errors of a request are not handled once its body was read",
    edits: [
      { file: "server/nodeListener.ts", from: 'request.on("error", ignore)', to: "" },
      // The reader of the body takes its listeners off when it has enough, as readers do.
      {
        file: "server/NodeSource.ts",
        from: '  response.on("close", () => body.abandon())',
        to: '  response.on("close", () => body.abandon())\n  message.once("aborted", () => process.nextTick(() => process.nextTick(() => message.off("error", onBroken))))',
      },
    ],
    only: "a second request without its body, then gone",
    noticed: /aborted/,
  },
]

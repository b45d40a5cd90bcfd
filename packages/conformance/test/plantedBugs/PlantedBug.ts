/** One bug that a store could have, planted into the memory stores, or the rules they follow, by a change to their text. */
export interface PlantedBug {
  readonly bug: string
  /** Below `src/memory/`, or `domain/` and a file of the domain. */
  readonly file: string
  readonly edits: ReadonlyArray<readonly [from: string, to: string]>
  /** The section of the conformance suite that must notice. */
  readonly section: string
  /** It takes two callers at once to see it, or more than a history holds: the sequential comparison cannot. */
  readonly unseenInHistories?: boolean
}

export const plant = (file: string, section: string, bug: string, ...edits: PlantedBug["edits"]): PlantedBug => ({
  bug,
  file,
  section,
  edits,
})
export const hidden = (planted: PlantedBug): PlantedBug => ({ ...planted, unseenInHistories: true })

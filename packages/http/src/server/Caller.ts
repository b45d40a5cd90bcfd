/** Who sends a request, as a program with users of its own says it. Jobs belong to who created them, by these names. */
export interface Caller {
  /**
   * Stable for ever: 1 to 64 letters, digits, `-` and `_`, as in `submit`'s `project`. Turns, caps and bills go by it. With
   * `prj_` in front it is the same project.
   */
  readonly projectId: string
  /**
   * Whose jobs they are within the project, stable too: 1 to 128 letters, digits and `-_.@~`. Callers of one project that have
   * different ones never see each other's jobs. Left out, the jobs are the project's, with those that the program submits for
   * it among them.
   */
  readonly keyId?: string | undefined
  /** `sandbox` never reaches a live provider and never costs. What was created in one is not found in the other. */
  readonly mode: "sandbox" | "live"
  /** What the caller may do: `audio.create`, `images.create`, and the key scopes of job kinds of one's own. */
  readonly scopes: ReadonlyArray<string>
}

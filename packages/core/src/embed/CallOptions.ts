export interface ProjectOption {
  /**
   * The owner of the job, for programs with several tenants: a name of 1 to 64 letters, digits, `-` and `_`. Projects take turns,
   * each has its own queue cap, and calls that name a project never see jobs of another. Default `embedded`.
   */
  readonly project?: string
}

export interface AbortOption {
  readonly signal?: AbortSignal
}

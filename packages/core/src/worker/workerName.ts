interface Os {
  readonly hostname: () => string
}

interface Process {
  readonly pid?: number
  readonly getBuiltinModule?: (id: "node:os") => Os | undefined
}

/**
 * Returns the name of this process for operators, in records of attempts and among the workers, like `host-1:4711`. Without a process id it
 * is the host, or `worker`.
 */
export const workerName = (): string => {
  const { process } = globalThis as { readonly process?: Process }
  const host = hostOf(process) ?? "worker"
  return process?.pid === undefined ? host : `${host}:${process.pid}`
}

/** A runtime may refuse to tell. */
const hostOf = (process: Process | undefined): string | undefined => {
  try {
    return process?.getBuiltinModule?.("node:os")?.hostname()
  } catch {
    return undefined
  }
}

/** A plain name, see `connectionOptions`: no longer than leaves room for what stands before it in the 63 bytes of a name. */
interface InSchema {
  readonly schema: string
}

/** One channel for each schema of a database; there may be work. The payload is the sender's mark, by which it knows its own. */
export const workChannel = ({ schema }: InSchema): string => `kiln_${schema}`

/** Jobs that ended, see `FinishedJobs.ts`. No schema has a dot in its name, so no two channels are the same. */
export const finishedChannel = ({ schema }: InSchema): string => `kiln.${schema}`

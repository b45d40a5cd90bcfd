import type { JobMode, KeptBytes, ProjectId, Upload } from "@kiln/core/domain"
import type { MemoryState } from "./MemoryState.ts"

/** The bytes that a project keeps. The reference model adds them up. */
export const keptBytes = (state: MemoryState, projectId: ProjectId, mode: JobMode): KeptBytes => {
  const isIts = (record: { readonly projectId: ProjectId; readonly mode: JobMode }) =>
    record.projectId === projectId && record.mode === mode
  const ofUpload = ({ claimedUntil, file, id }: Upload) =>
    file?.bytes ?? (claimedUntil === null ? 0 : (state.reservedBytes.get(id) ?? 0))
  const sum = (numbers: ReadonlyArray<number>) => numbers.reduce((all, one) => all + one, 0)
  return {
    uploads: sum([...state.uploads.values()].filter(isIts).map(ofUpload)),
    files: sum([...state.jobs.values()].filter(isIts).flatMap(({ files }) => files.map(({ bytes }) => bytes))),
  }
}

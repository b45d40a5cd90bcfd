import type { OrphanSurvey } from "@kiln/core/worker"

const files = (count: number): string => `${count} file${count === 1 ? "" : "s"}`

/** Describes what a sweep would remove and what it keeps, in one sentence each. */
export const describeOrphans = ({ blobs, bytes, exceedsShare, kept, removable }: OrphanSurvey): string =>
  [
    `${files(removable.length)} of ${blobs} orphaned (${bytes} bytes)${exceedsShare ? "; a sweep removes this many only with --force" : ""}`,
    ...(kept.unknown > 0 ? [`${files(kept.unknown)} kept although the database has no record of their owner`] : []),
    ...(kept.ahead > 0
      ? [`${files(kept.ahead)} kept although they are newer than the record of their job or upload`]
      : []),
  ].join("; ")

/**
 * How lanes name a kind and its version. The first version keeps the plain name, by which the lanes of before there were
 * versions are known; the uniqueness of lanes could not be widened beside processes of that time. And since they ask for
 * plain names only, they never meet a lane whose jobs they could not run. A kind's own name has no such sign in it.
 */
export const laneKind = (kind: string, kindVersion: number): string =>
  kindVersion === 1 ? kind : `${kind}@${kindVersion}`

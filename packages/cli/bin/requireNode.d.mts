/** What to tell someone whose Node (a version such as `20.11.1`) cannot run kiln: one line, or undefined when it can. */
export function requireNode(found: string): string | undefined

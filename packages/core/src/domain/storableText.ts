/**
 * Whether every store keeps this text as it is: Postgres refuses U+0000, and SQLite replaces unpaired surrogates, so that two
 * different names would become one.
 */
export const isStorableText = (text: unknown): text is string =>
  typeof text === "string" && !text.includes("\u0000") && text.isWellFormed()

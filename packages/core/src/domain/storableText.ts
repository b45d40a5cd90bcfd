/**
 * Returns whether every store keeps this text unchanged: Postgres refuses U+0000, and SQLite replaces unpaired surrogates, so two
 * different names could become equal.
 */
export const isStorableText = (text: unknown): text is string =>
  typeof text === "string" && !text.includes("\u0000") && text.isWellFormed()

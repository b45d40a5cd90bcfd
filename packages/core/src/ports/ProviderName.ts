/** The provider ports, by name: what job kinds may ask of the outside. */
export const providerNames = ["transcription", "reply", "speech", "image", "voiceTurn"] as const
export type ProviderName = (typeof providerNames)[number]

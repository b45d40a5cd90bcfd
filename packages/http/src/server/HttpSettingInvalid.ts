import { Schema } from "effect"

/** A setting cannot be used. */
export class HttpSettingInvalid extends Schema.TaggedError<HttpSettingInvalid>()("HttpSettingInvalid", {
  setting: Schema.Literals(["signingKeys", "trustedProxies", "publicUrl"]),
  /** The rule it breaks; never any part of a key. */
  problem: Schema.String,
}) {}

import { browserRecipes } from "./browserRecipes.ts"
import { longRecipes } from "./longRecipes.ts"
import { mp3Recipes } from "./mp3Recipes.ts"
import { mp4Recipes } from "./mp4Recipes.ts"
import type { Recipe } from "./Recipe.ts"
import { smallRecipes } from "./smallRecipes.ts"
import { wavRecipes } from "./wavRecipes.ts"
import { webmRecipes } from "./webmRecipes.ts"

/** Every file of the honest corpus. */
export const recipes: ReadonlyArray<Recipe> = [
  ...wavRecipes,
  ...mp3Recipes,
  ...mp4Recipes,
  ...webmRecipes,
  ...longRecipes,
  ...smallRecipes,
  ...browserRecipes,
]

/**
 * Groups that may be refused, but must not be measured wrong: codecs that are not supported, Matroska, as which Chromium records
 * samples, and MP3s whose first bytes are zeros, which say nothing.
 */
const unsupported = [
  "ffmpeg-wmav2-in-wav.",
  "ffmpeg-ac3-in-wav.",
  "ffmpeg-flac-in-wav.",
  "ffmpeg-vorbis-in-mp4.",
  "ffmpeg-gsm-in-mov.",
  "lame-tagged.zeros-before.",
  "shineenc-tagged.zeros-before.",
  "chromium-webm.pcm.",
  "chromium-webm.pcm-slices.",
]

export const isUnsupported = ({ name }: Recipe): boolean => unsupported.some((group) => name.startsWith(group))

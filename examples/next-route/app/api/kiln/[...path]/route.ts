import { kiln } from "../../../../lib/kiln.ts"

/** kiln needs the Node runtime, and its responses must not be cached. */
export const runtime = "nodejs"
export const dynamic = "force-dynamic"

const handle = async (request: Request): Promise<Response> => (await kiln()).handler(request)

export { handle as DELETE, handle as GET, handle as HEAD, handle as OPTIONS, handle as POST, handle as PUT }

import { kiln } from "../../../../lib/kiln.ts"

/** kiln needs Node, and no answer of it is the same for the next one who asks. */
export const runtime = "nodejs"
export const dynamic = "force-dynamic"

const handle = async (request: Request): Promise<Response> => (await kiln()).handler(request)

export { handle as DELETE, handle as GET, handle as HEAD, handle as OPTIONS, handle as POST, handle as PUT }

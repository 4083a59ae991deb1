// For the hosts of the HTTP suite, which attempt deliveries when they are told what comes of them.

/** Where they are told. */
export const DISPATCH_PATH = "/dispatch";

/** Attempts whatever is due. What the body names the URL of is answered with its status, or not at all. */
export async function dispatch(service, request) {
  const { url, status } = await request.json();
  const answer = async (to) => {
    if (to !== url) return new Response(null, { status: 204 });
    if (status === null) throw new TypeError("there is nobody");
    return new Response(null, { status });
  };
  while ((await service.dispatch(answer)).hasMore);
  return new Response(null, { status: 204 });
}

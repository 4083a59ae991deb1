// Deliveries of the HTTP suite's hosts, with outcomes that the suite chooses.

/** Path of the request that triggers deliveries. */
export const DISPATCH_PATH = "/dispatch";

/** Attempts due deliveries. Those to the body's URL get its status, or an error if it is null. */
export async function dispatch(service, request) {
  const { url, status } = await request.json();
  const answer = async (to) => {
    if (to !== url) return new Response(null, { status: 204 });
    if (status === null) throw new TypeError("connection refused");
    return new Response(null, { status });
  };
  while ((await service.dispatch(answer)).hasMore);
  return new Response(null, { status: 204 });
}

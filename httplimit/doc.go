// Package httplimit puts limits per tenant in front of an [http.Handler]: requests, tokens,
// money and concurrency, by the counters of package keyed or another [Limiter]. [PerKey] is the
// short form for one limit.
//
//	limited := httplimit.Handler(api, httplimit.Options{
//		Key: func(r *http.Request) string { return tenantOf(r) },
//		Limits: func(tenant string) []keyed.Request {
//			return []keyed.Request{{Namespace: "requests", Limit: 100, Window: time.Minute}}
//		},
//	})
//
// All limits of a request are taken, or none of them. A request that does not fit is answered with
// status 429, Retry-After, and an error in OpenAI's shape that never names the key; the next
// handler does not see it.
//
// # Costs that are known only afterwards
//
// How many tokens a call costs is known when its response has ended. Options.Settle names the
// limits for which that is so. Of these, the handler holds an estimate (Options.Cost) while the
// request is served, and charges at the end what the response has used:
//
//   - the sum of what the next handler has told by [Report], if it told anything;
//   - else what the function in Options.Settle returns. [Tokens] returns the usage that a
//     response in OpenAI's or Anthropic's shape states, as JSON or as server-sent events. It is
//     read as the body passes by, which is neither delayed nor changed;
//   - else nothing if the call failed before it used anything: with a status of 400 or more
//     while the client was still there, or with a panic before the response began;
//   - else the estimate: of a response that states no usage, of a client that left early (the
//     provider may charge for what nobody has read), and of a hijacked connection.
//
// The estimate counts in full until then, so it should be the most that a request may use: the
// quota is then never exceeded. A lower one admits more at once, and can exceed it by as much as
// the estimates were too low. The usage counts at the instant at which the response ends.
//
// A compressed body states no usage that can be read. A reverse proxy must therefore not forward
// Accept-Encoding, so that its transport asks for compression by itself and removes it.
//
// # Fields
//
// Responses have the fields RateLimit-Policy and RateLimit of
// draft-ietf-httpapi-ratelimit-headers-11:
//
//	RateLimit-Policy: "requests";q=100;w=60, "tokens";q=20000;w=60;qu="tokens"
//	RateLimit: "tokens";r=180;t=74, "requests";r=97;t=74
//
// RateLimit-Policy lists the limits in the order of Options.Limits. RateLimit lists the one that
// is closest to exhaustion first; a refusal lists only the limits that refuse. A policy is called
// by its Namespace, and if several share one, by Namespace and window, as "tokens-86400". q is
// the limit, w its window in seconds, rounded up, and r what remains. t is the seconds, rounded
// up, until the counter is empty (with units on hold: a window), or in a refusal until the request
// would fit. Retry-After is the largest t. A limit in Options.Settle counts in
// units of its Namespace (qu), all others in requests; Options.InFlight is the policy "in-flight"
// in concurrent requests. The key is never sent.
//
// A client that paces itself by r over t gets less than half of its quota, because t ends only
// when the counter is empty. It should pace itself by q over w, and obey Retry-After. The draft's
// registry of quota units has "requests", "content-bytes" and "concurrent-requests": a qu of
// "tokens" is outside of it, and clients may not know it.
//
// # The next handler
//
// It gets the request as it came, and a response writer that does all that the server's own does:
// Flush, Hijack, ReadFrom, Push, informational responses, trailers, and all methods of
// [http.ResponseController]. Without Options.Settle it gets the server's own. The fields of this
// package are set before it runs, so it can read, change and delete them.
package httplimit

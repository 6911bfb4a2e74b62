// Package debugpage shows what a limiter does: an [http.Handler] with one live page, for the admin
// port of a service.
//
//	admin := http.NewServeMux()
//	admin.Handle("/debug/ratelimit", debugpage.Handler(limiter))
//
// For each model the page shows whether the next request passes, and what blocks it if not: a bar
// for each limit, the line with ages and sizes, open calls, a cooldown with its cause and a
// countdown, the next room, and the last refusal. Of a limit that is searched for
// ([ratelimit.ModelQuota.AdaptiveFloorRPM]) it shows what was found, between which bounds, where
// the provider last refused, and when the limit was last lowered. It shows what
// [ratelimit.RateLimiter.Explain] and [ratelimit.RateLimiter.Health] tell, and nothing else: no
// key, prompt or reply. It changes nothing, and listens nowhere by itself. Model names and loads
// are the service's own business, so the page belongs behind the same door as net/http/pprof.
//
// # The page
//
// The page is a plain table, which needs no JavaScript. With JavaScript it is live: server-sent
// events from the same address bring the models that have changed, every second. It loads nothing
// from elsewhere, and has a Content-Security-Policy with a nonce. Models without use in the last
// minute are folded. Of more than 2,000 models the page shows those in use first, and leaves out
// the rest.
//
// All viewers share one snapshot a second. It asks for one model at a time, so the limiter is never
// held for longer than one Explain. Without viewers nothing runs. Where a snapshot takes long, the
// next one comes later, so that snapshots take one percent of a core at most. A viewer that reads
// slowly misses updates, and holds up nobody. One that does not read for ten seconds is cut off.
// All streams end when [http.Server.Shutdown] is called. There are at most 64 at a time.
//
// # JSON
//
// With "Accept: application/json", or ?format=json, the answer is one object:
//
//	at           the moment, RFC 3339
//	store_error  why the store or the shared database cannot be used; missing if it can
//	warnings     the texts of Health.Warnings; missing if there are none
//	models       the [ratelimit.Explanation] of each model, sorted by name
//
// A ratelimit.Explanation decodes an element of models. Its durations are texts, such as "1.5s".
package debugpage

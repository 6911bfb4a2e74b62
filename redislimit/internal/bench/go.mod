module dappco.re/go/core/go-ratelimit/redislimit/internal/bench

go 1.26.0

require (
	dappco.re/go/core/go-ratelimit v0.0.0
	dappco.re/go/core/go-ratelimit/redislimit v0.0.0
	github.com/go-redis/redis_rate/v10 v10.0.1
	github.com/redis/go-redis/v9 v9.23.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace (
	dappco.re/go/core/go-ratelimit => ../../..
	dappco.re/go/core/go-ratelimit/redislimit => ../..
)

module dappco.re/go/core/go-ratelimit/internal/test/adaptivesim/peers

go 1.26.0

require (
	dappco.re/go/core/go-ratelimit v0.0.0
	github.com/failsafe-go/failsafe-go v0.9.8
)

require (
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/influxdata/tdigest v0.0.1 // indirect
)

replace dappco.re/go/core/go-ratelimit => ../../../..

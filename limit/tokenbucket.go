package limit

import "math"

// Limit is a rate in events a second, as in golang.org/x/time/rate. The zero Limit
// admits nothing but the first burst.
type Limit float64

// Inf is the Limit without limit.
const Inf = Limit(math.MaxFloat64)

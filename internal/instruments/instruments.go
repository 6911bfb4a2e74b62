// Package instruments is what modules otelratelimit and promratelimit have in common: the one list
// of instruments, how an event becomes measurements, and how a limiter becomes samples of gauges.
// Both tell the same by construction.
package instruments

// ID is the place of an instrument in List.
type ID int

// The instruments.
const (
	Requests ID = iota
	TimeInQueue
	QueuedRequests
	ActiveLeases
	LeaseDuration
	QuotaLimit
	QuotaUsed
	QuotaExternal
	QuotaUtilization
	QuotaFound
	Tokens
	EstimateRatio
	ProviderRejections
	ProviderPause
	StoreDuration
	StoreDegraded
	ProfileAge
	Spend
	BudgetLimit
	BudgetSpent
	PoolDenials
	PoolQueuedRequests
	PoolActiveLeases
	PoolQuotaLimit
	PoolQuotaUsed
	PoolQuotaExternal
	PoolQuotaUtilization
	PoolQuotaFound
	PoolBudgetLimit
	PoolBudgetSpent
	Count // the number of instruments
)

// Kind is the kind of an instrument.
type Kind int

// The kinds. Counters and histograms are fed by events; the others are read from a limiter at each
// collection.
const (
	Counter Kind = iota
	Histogram
	UpDownCounter
	Gauge
)

// Instrument describes one instrument.
type Instrument struct {
	Name        string // in OpenTelemetry
	Prometheus  string
	Kind        Kind
	Integer     bool   // the values are whole numbers
	Unit        string // in UCUM, as OpenTelemetry has it
	Description string
	Boundaries  []float64   // of the buckets of a histogram; nil for others
	Attributes  []Attribute // beside Model and Provider, which PerModel says
	PerModel    bool        // it has the attributes Model and Provider
}

// Attribute is the key of an attribute.
type Attribute struct {
	Name  string // in OpenTelemetry
	Label string // in Prometheus
}

// The attributes. Their names are those of the semantic conventions where there is one.
var (
	Model     = Attribute{"gen_ai.request.model", "model"}
	Provider  = Attribute{"gen_ai.provider.name", "provider"}
	Code      = Attribute{"ratelimit.code", "code"}
	Result    = Attribute{"ratelimit.result", "result"}
	Dimension = Attribute{"ratelimit.dimension", "dimension"}
	Source    = Attribute{"ratelimit.source", "source"}
	TokenKind = Attribute{"ratelimit.kind", "kind"}
	TokenType = Attribute{"gen_ai.token.type", "token_type"}
	Status    = Attribute{"http.response.status_code", "status"}
	ErrorType = Attribute{"error.type", "error_type"}
	Cause     = Attribute{"ratelimit.cause", "cause"}
	System    = Attribute{"db.system.name", "system"}
	Operation = Attribute{"ratelimit.operation", "operation"}
	Class     = Attribute{"ratelimit.class", "class"}
	Pool      = Attribute{"ratelimit.pool", "pool"}
	Period    = Attribute{"ratelimit.period", "period"}
)

// The values of TokenKind and TokenType.
const (
	Reserved = "reserved"
	Settled  = "settled"
	Returned = "returned"

	Input  = "input"
	Output = "output"
)

// The values of Period.
const (
	TenMinutes = "ten_minutes"
	Day        = "day"
	Month      = "month"
)

// Seconds are the boundaries of durations: from 5 ms, which a call without a wait stays below, to
// 10 minutes.
var Seconds = []float64{
	0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 20, 30, 60, 120, 300, 600,
}

// Ratios are the boundaries of EstimateRatio. 1 is an exact estimate, less is too high.
var Ratios = []float64{0.1, 0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 5, 10}

var (
	quotaAttributes      = []Attribute{Dimension, Source}
	poolAttributes       = []Attribute{Pool}
	poolQuotaAttributes  = []Attribute{Pool, Dimension, Source}
	poolBudgetAttributes = []Attribute{Pool, Period}
)

// List is every instrument. The shape is that of ASP.NET Core's rate-limiting metrics, the one
// stable convention for rate limiting. What a pool has is in instruments of their own: a call is
// charged to its model and to each of its pools, so a sum over both would count it several times.
var List = [Count]Instrument{
	Requests: {
		Name: "ratelimit.requests", Prometheus: "ratelimit_requests_total",
		Kind: Counter, Integer: true, Unit: "{request}", PerModel: true,
		Description: "Requests that the limiter admitted or refused, by the reason of a wait or a refusal.",
		Attributes:  []Attribute{Code, Result, Class},
	},
	TimeInQueue: {
		Name: "ratelimit.request.time_in_queue", Prometheus: "ratelimit_request_time_in_queue_seconds",
		Kind: Histogram, Unit: "s", PerModel: true, Boundaries: Seconds,
		Description: "The time that requests stood in line. Requests that did not wait are not in it.",
		Attributes:  []Attribute{Result, Class},
	},
	QueuedRequests: {
		Name: "ratelimit.queued_requests", Prometheus: "ratelimit_queued_requests",
		Kind: UpDownCounter, Integer: true, Unit: "{request}", PerModel: true,
		Description: "Requests that stand in line.",
		Attributes:  []Attribute{Class},
	},
	ActiveLeases: {
		Name: "ratelimit.active_leases", Prometheus: "ratelimit_active_leases",
		Kind: UpDownCounter, Integer: true, Unit: "{request}", PerModel: true,
		Description: "Open reservations: requests that were admitted and are not settled.",
	},
	LeaseDuration: {
		Name: "ratelimit.lease.duration", Prometheus: "ratelimit_lease_duration_seconds",
		Kind: Histogram, Unit: "s", PerModel: true, Boundaries: Seconds,
		Description: "The time from the admission of a request to the end of its reservation.",
	},
	QuotaLimit: {
		Name: "ratelimit.quota.limit", Prometheus: "ratelimit_quota_limit",
		Kind: Gauge, Integer: true, Unit: "{unit}", PerModel: true,
		Description: "The limit in force: requests or tokens, as the dimension says.",
		Attributes:  quotaAttributes,
	},
	QuotaUsed: {
		Name: "ratelimit.quota.used", Prometheus: "ratelimit_quota_used",
		Kind: Gauge, Integer: true, Unit: "{unit}", PerModel: true,
		Description: "What this limiter has charged to the limit: requests or tokens, as the dimension says.",
		Attributes:  quotaAttributes,
	},
	QuotaExternal: {
		Name: "ratelimit.quota.external", Prometheus: "ratelimit_quota_external",
		Kind: Gauge, Integer: true, Unit: "{unit}", PerModel: true,
		Description: "What others of the account use of the limit, as the provider reports it. Only limits with some have it.",
		Attributes:  quotaAttributes,
	},
	QuotaUtilization: {
		Name: "ratelimit.quota.utilization", Prometheus: "ratelimit_quota_utilization_ratio",
		Kind: Gauge, Unit: "1", PerModel: true,
		Description: "The used and external share of the limit. 1 is all of it.",
		Attributes:  quotaAttributes,
	},
	QuotaFound: {
		Name: "ratelimit.quota.found", Prometheus: "ratelimit_quota_found",
		Kind: Gauge, Integer: true, Unit: "{unit}", PerModel: true,
		Description: "The limit that was found by the provider's refusals: requests per minute or calls in flight. Only quotas that search for it have it.",
		Attributes:  []Attribute{Dimension},
	},
	Tokens: {
		Name: "ratelimit.tokens", Prometheus: "ratelimit_tokens_total",
		Kind: Counter, Integer: true, Unit: "{token}", PerModel: true,
		Description: "Tokens that admissions reserved, that stayed charged at the end, and that were given back.",
		Attributes:  []Attribute{TokenKind, TokenType},
	},
	EstimateRatio: {
		Name: "ratelimit.estimate.ratio", Prometheus: "ratelimit_estimate_ratio",
		Kind: Histogram, Unit: "1", PerModel: true, Boundaries: Ratios,
		Description: "The settled tokens of a request, divided by the estimated ones.",
	},
	ProviderRejections: {
		Name: "ratelimit.provider.rejections", Prometheus: "ratelimit_provider_rejections_total",
		Kind: Counter, Integer: true, Unit: "{response}", PerModel: true,
		Description: "Refusals of requests that were sent, by the provider.",
		Attributes:  []Attribute{Status, ErrorType},
	},
	ProviderPause: {
		Name: "ratelimit.provider.pause", Prometheus: "ratelimit_provider_pause_seconds",
		Kind: Gauge, Unit: "s", PerModel: true,
		Description: "The rest of the cooldown, in which nothing is sent. Only models in a cooldown have it.",
		Attributes:  []Attribute{Cause},
	},
	StoreDuration: {
		Name: "ratelimit.store.duration", Prometheus: "ratelimit_store_duration_seconds",
		Kind: Histogram, Unit: "s", Boundaries: Seconds,
		Description: "The time that writes to the state file or the store took.",
		Attributes:  []Attribute{System, Operation},
	},
	StoreDegraded: {
		Name: "ratelimit.store.degraded", Prometheus: "ratelimit_store_degraded",
		Kind: Gauge, Integer: true, Unit: "1",
		Description: "1 while the shared database or the store cannot be used, else 0.",
	},
	ProfileAge: {
		Name: "ratelimit.profile.age", Prometheus: "ratelimit_profile_age_seconds",
		Kind: Gauge, Unit: "s", PerModel: true,
		Description: "The time since the quota was read from the provider's documents. Only quotas of profiles have it.",
	},
	Spend: {
		Name: "ratelimit.spend", Prometheus: "ratelimit_spend_dollars_total",
		Kind: Counter, Unit: "USD", PerModel: true,
		Description: "What requests have cost that are settled, in dollars, by the prices of the limiter.",
		Attributes:  []Attribute{Class},
	},
	BudgetLimit: {
		Name: "ratelimit.budget.limit", Prometheus: "ratelimit_budget_limit_dollars",
		Kind: Gauge, Unit: "USD", PerModel: true,
		Description: "What requests may cost in the day or the calendar month. Only quotas that limit it have it.",
		Attributes:  []Attribute{Period},
	},
	BudgetSpent: {
		Name: "ratelimit.budget.spent", Prometheus: "ratelimit_budget_spent_dollars",
		Kind: Gauge, Unit: "USD", PerModel: true,
		Description: "What requests of the day or the calendar month cost, those that are open at the most that they can.",
		Attributes:  []Attribute{Period},
	},
	PoolDenials: {
		Name: "ratelimit.pool.denials", Prometheus: "ratelimit_pool_denials_total",
		Kind: Counter, Integer: true, Unit: "{request}",
		Description: "Requests that a pool made wait or refused. They are in the requests of their models, too.",
		Attributes:  []Attribute{Pool, Code, Result},
	},
	PoolQueuedRequests: {
		Name: "ratelimit.pool.queued_requests", Prometheus: "ratelimit_pool_queued_requests",
		Kind: UpDownCounter, Integer: true, Unit: "{request}", Attributes: poolAttributes,
		Description: "Requests for models of the pool that stand in line.",
	},
	PoolActiveLeases: {
		Name: "ratelimit.pool.active_leases", Prometheus: "ratelimit_pool_active_leases",
		Kind: UpDownCounter, Integer: true, Unit: "{request}", Attributes: poolAttributes,
		Description: "Open reservations of the models of the pool.",
	},
	PoolQuotaLimit: {
		Name: "ratelimit.pool.quota.limit", Prometheus: "ratelimit_pool_quota_limit",
		Kind: Gauge, Integer: true, Unit: "{unit}", Attributes: poolQuotaAttributes,
		Description: "The limit of a pool in force: requests or tokens, as the dimension says.",
	},
	PoolQuotaUsed: {
		Name: "ratelimit.pool.quota.used", Prometheus: "ratelimit_pool_quota_used",
		Kind: Gauge, Integer: true, Unit: "{unit}", Attributes: poolQuotaAttributes,
		Description: "What this limiter has charged to the limit of a pool: requests or tokens, as the dimension says.",
	},
	PoolQuotaExternal: {
		Name: "ratelimit.pool.quota.external", Prometheus: "ratelimit_pool_quota_external",
		Kind: Gauge, Integer: true, Unit: "{unit}", Attributes: poolQuotaAttributes,
		Description: "What others of the account use of the limit of a pool, as the provider reports it. Only limits with some have it.",
	},
	PoolQuotaUtilization: {
		Name: "ratelimit.pool.quota.utilization", Prometheus: "ratelimit_pool_quota_utilization_ratio",
		Kind: Gauge, Unit: "1", Attributes: poolQuotaAttributes,
		Description: "The used and external share of the limit of a pool. 1 is all of it.",
	},
	PoolQuotaFound: {
		Name: "ratelimit.pool.quota.found", Prometheus: "ratelimit_pool_quota_found",
		Kind: Gauge, Integer: true, Unit: "{unit}", Attributes: []Attribute{Pool, Dimension},
		Description: "The limit of a pool that was found by the provider's refusals. Only pools that search for it have it.",
	},
	PoolBudgetLimit: {
		Name: "ratelimit.pool.budget.limit", Prometheus: "ratelimit_pool_budget_limit_dollars",
		Kind: Gauge, Unit: "USD", Attributes: poolBudgetAttributes,
		Description: "What requests for models of the pool may cost in the day or the calendar month.",
	},
	PoolBudgetSpent: {
		Name: "ratelimit.pool.budget.spent", Prometheus: "ratelimit_pool_budget_spent_dollars",
		Kind: Gauge, Unit: "USD", Attributes: poolBudgetAttributes,
		Description: "What requests for models of the pool cost in the day or the calendar month, open ones at the most that they can.",
	},
}

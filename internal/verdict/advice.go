package verdict

import (
	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// storeError is the code of a limiter that cannot reach what it shares with others.
const storeError = "store_error"

// Advice says what to do about many denials with a code.
func Advice(code string) string {
	switch code {
	case Cooldown:
		return "the provider asked for a pause; wait until it ends, and see Explain for its cause"
	case state.Limits[state.InFlight].Code:
		return "settle each reservation; Explain tells how old the oldest is"
	case Queued:
		return "wait in line, too, with Acquire; Explain tells what the first in line asks for"
	case state.Limits[state.RPD].Code, state.Limits[state.TPD].Code, account.CodeMonth:
		return "send to another model, or ask the provider for a larger quota"
	case account.CodeSpend:
		return "send to a cheaper model, or raise the limit of spend; Audit tells what the calls cost"
	case account.CodeUnpriced:
		return "give the model a price by SetPrice, or see Config.Unpriced"
	case TooManyModels:
		return "raise Config.MaxModels, or give the models quotas of their own"
	case InvalidTokens, InvalidQuota, UnknownModel:
		return "correct the program or its configuration"
	case storeError:
		return "see Health.Err"
	}
	return "wait for Decision.RetryAfter or with Acquire, send less, or set a larger quota if the account has one"
}

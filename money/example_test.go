package money_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"dappco.re/go/core/go-ratelimit/money"
)

// The units make exact amounts without a float. An Amount prints as dollars; %d prints its
// micro-dollars.
func ExampleAmount() {
	budget := 12*money.Dollar + 50*money.Cent
	fmt.Println(budget, budget > 12*money.Dollar)
	fmt.Printf("%d\n", budget)
	fmt.Println(3 * money.Micro)
	// Output:
	// $12.50 true
	// 12500000
	// $0.000003
}

func ExampleUSD() {
	fmt.Println(money.USD(12.50), money.USD(0.075), money.USD(-3))
	// Output: $12.50 $0.075 -$3.00
}

// A sum that is too large stays at the largest amount.
func ExampleAmount_Add() {
	spent := money.USD(0.42)
	fmt.Println(spent.Add(money.USD(0.08)))
	fmt.Println(money.Max.Add(spent) == money.Max, money.Min.Add(-spent) == money.Min)
	// Output:
	// $0.50
	// true true
}

// What is left of a budget may be negative.
func ExampleAmount_Sub() {
	budget := money.USD(10)
	fmt.Println(budget.Sub(money.USD(9.99)), budget.Sub(money.USD(10.01)))
	// Output: $0.01 -$0.01
}

func ExampleAmount_Mul() {
	fmt.Println(money.USD(0.000375).Mul(20_000))
	// Output: $7.50
}

func ExampleAmount_Dollars() {
	gauge := money.USD(12.50).Dollars()
	fmt.Println(gauge)
	// Output: 12.5
}

// As many decimals as it takes, but never less than two.
func ExampleAmount_String() {
	for _, a := range []money.Amount{0, 5 * money.Dollar, 1500 * money.Micro, -money.Micro} {
		fmt.Println(a.String())
	}
	// Output:
	// $0.00
	// $5.00
	// $0.0015
	// -$0.000001
}

func ExampleParse() {
	for _, text := range []string{"$12.50", "12.50", "12,50", "0.0000001"} {
		amount, err := money.Parse(text)
		fmt.Println(amount, err, errors.Is(err, strconv.ErrSyntax))
	}
	// Output:
	// $12.50 <nil> false
	// $12.50 <nil> false
	// $0.00 parse amount "12,50": invalid syntax, want dollars such as $12.50 or 12.50 true
	// $0.00 parse amount "0.0000001": invalid syntax, more than 6 decimals true
}

func ExampleAmount_MarshalText() {
	text, err := json.Marshal(map[string]money.Amount{"spent": money.USD(0.31)})
	fmt.Println(string(text), err)
	// Output: {"spent":"$0.31"} <nil>
}

func ExampleAmount_UnmarshalText() {
	var budget money.Amount
	err := budget.UnmarshalText([]byte("$250"))
	fmt.Println(budget, err)
	// Output: $250.00 <nil>
}

// JSON may say dollars as a number, too.
func ExampleAmount_UnmarshalJSON() {
	var limits []money.Amount
	err := json.Unmarshal([]byte(`["$12.50", "12.50", 12.50]`), &limits)
	fmt.Println(limits, err)
	// Output: [$12.50 $12.50 $12.50] <nil>
}

func ExamplePrice() {
	price := money.Price{ // per million tokens
		Input:       money.USD(3),
		CachedInput: money.USD(0.30),
		CacheWrite:  money.USD(3.75),
		Output:      money.USD(15),
	}
	call := money.Usage{Input: 1200, CachedInput: 30_000, Output: 650}
	fmt.Println(price.Cost(call))
	// Output: $0.02235
}

// The cost of a call is rounded up to a micro-dollar, once for all kinds together.
func ExamplePrice_Cost() {
	price := money.Price{Input: money.USD(0.40), Output: money.USD(1.60)}
	fmt.Println(price.Cost(money.Usage{Input: 1}))
	fmt.Println(price.Cost(money.Usage{Input: 1, Output: 1}))
	// Output:
	// $0.000001
	// $0.000002
}

// Before a call nobody knows how much of its input a cache will read or write.
func ExamplePrice_MaxCost() {
	price := money.Price{
		Input: money.USD(3), CachedInput: money.USD(0.30), CacheWrite: money.USD(3.75), Output: money.USD(15),
	}
	reserved := price.MaxCost(10_000, 1000)
	settled := price.Cost(money.Usage{Input: 500, CachedInput: 9500, Output: 420})
	fmt.Println(reserved, settled, reserved.Sub(settled))
	// Output: $0.0525 $0.01065 $0.04185
}

func ExamplePrice_IsZero() {
	prices := map[string]money.Price{"model-a": {Input: money.USD(3), Output: money.USD(15)}}
	fmt.Println(prices["model-a"].IsZero(), prices["model-b"].IsZero())
	// Output: false true
}

func ExamplePrice_Validate() {
	price := money.Price{Input: money.USD(3), Output: money.USD(-15)}
	err := price.Validate()
	fmt.Println(err)
	fmt.Println(errors.Is(err, money.ErrInvalidPrice))
	// Output:
	// invalid price: Output (output) is negative: -$15.00
	// true
}

// A large call and one of another service tier have prices of their own. What is not known of a
// call counts at the dearest.
func ExamplePrice_CostAt() {
	price := money.Price{
		Input: money.USD(5), Output: money.USD(30),
		Rates: money.Rates{
			{ServiceTier: money.Flex, Input: money.USD(2.50), Output: money.USD(15)},
			{ServiceTier: money.Priority, Input: money.USD(12.50), Output: money.USD(75)},
			{Above: 272_000, Input: money.USD(10), Output: money.USD(45)},
		},
	}
	used := money.Usage{Input: 100_000, Output: 10_000}
	fmt.Println(price.CostAt(used, money.Terms{ServiceTier: money.Standard}))
	fmt.Println(price.CostAt(used, money.Terms{ServiceTier: money.TierOf("flex")}))
	fmt.Println(price.CostAt(used, money.Terms{}))
	fmt.Println(price.Cost(money.Usage{Input: 300_000, Output: 10_000}))
	// Output:
	// $0.80
	// $0.40
	// $2.00
	// $3.45
}

// OpenAI and Gemini count cached tokens as part of the prompt, Anthropic beside it.
func ExampleUsage() {
	var openAI struct { // of chat completions
		PromptTokens        int `json:"prompt_tokens"`
		CompletionTokens    int `json:"completion_tokens"`
		PromptTokensDetails struct {
			CachedTokens     int `json:"cached_tokens"`
			CacheWriteTokens int `json:"cache_write_tokens"`
		} `json:"prompt_tokens_details"`
	}
	err := json.Unmarshal([]byte(`{"prompt_tokens": 2600, "completion_tokens": 300,
		"prompt_tokens_details": {"cached_tokens": 2000, "cache_write_tokens": 400}}`), &openAI)
	details := openAI.PromptTokensDetails
	fmt.Printf("%+v %v\n", money.Usage{
		Input:       openAI.PromptTokens - details.CachedTokens - details.CacheWriteTokens,
		CachedInput: details.CachedTokens,
		CacheWrite:  details.CacheWriteTokens,
		Output:      openAI.CompletionTokens,
	}, err)

	var anthropic struct {
		Input      int `json:"input_tokens"`
		CacheRead  int `json:"cache_read_input_tokens"`
		CacheWrite int `json:"cache_creation_input_tokens"`
		Output     int `json:"output_tokens"`
	}
	err = json.Unmarshal([]byte(`{"input_tokens": 200, "cache_read_input_tokens": 2000,
		"cache_creation_input_tokens": 400, "output_tokens": 300}`), &anthropic)
	fmt.Printf("%+v %v\n", money.Usage{
		Input:       anthropic.Input,
		CachedInput: anthropic.CacheRead,
		CacheWrite:  anthropic.CacheWrite,
		Output:      anthropic.Output,
	}, err)
	// Output:
	// {Input:200 CachedInput:2000 CacheWrite:400 CacheWriteHour:0 Output:300 ServiceTier:} <nil>
	// {Input:200 CachedInput:2000 CacheWrite:400 CacheWriteHour:0 Output:300 ServiceTier:} <nil>
}

// A Micro is the least price there is, for cached input that is free.
func ExampleErrInvalidPrice() {
	free := money.Price{Input: money.USD(3), CachedInput: money.Micro}
	fmt.Println(free.Validate(), free.Cost(money.Usage{CachedInput: 900_000}))
	broken := money.Price{Input: money.USD(3), CachedInput: -money.Micro}
	fmt.Println(errors.Is(broken.Validate(), money.ErrInvalidPrice))
	// Output:
	// <nil> $0.000001
	// true
}

/* Names as C++ mangles them, all on the way to `reached`: a template, an operator, a namespace without a name, a
 * lambda, a destructor. */
#include <cstdio>
#include <string>

extern "C" __attribute__((noinline)) int reached(int value)
{
	asm volatile("" : "+r"(value));
	return value + 1;
}

namespace shop {
template <typename T> struct Store {
	T held;
	__attribute__((noinline)) int put(const T &value, int amount)
	{
		held = value;
		int result = reached(amount);
		asm volatile("" : "+r"(result));
		return result;
	}
};

struct Price {
	int cents;
	__attribute__((noinline)) Price operator+(const Price &other) const
	{
		Store<std::string> store;
		int sum = store.put("sum", cents + other.cents);
		asm volatile("" : "+r"(sum));
		return Price{ sum };
	}
};

namespace {
__attribute__((noinline)) int hidden(int value)
{
	int result = (Price{ value } + Price{ 1 }).cents;
	asm volatile("" : "+r"(result));
	return result;
}
}

struct Cart {
	int value;
	__attribute__((noinline)) ~Cart()
	{
		auto total = [this](int more) __attribute__((noinline)) {
			int result = hidden(value + more);
			asm volatile("" : "+r"(result));
			return result;
		};
		int result = total(2);
		asm volatile("" : "+r"(result));
		value = result;
	}
};
}

int main()
{
	for (int i = 0; i < 2; i++)
		shop::Cart cart{ i };
	return 0;
}

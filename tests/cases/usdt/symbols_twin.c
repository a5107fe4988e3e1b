static volatile signed char twin = -99;

signed char other_twin(void)
{
    return twin;
}
